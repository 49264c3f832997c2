"""Other methods for what kbdisk does: what each does, and whether it is installed.

python -m benchmarks peers                     the list
python -m benchmarks peers install NAME ...    an environment of its own for each, in .peers
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.base import Table
from benchmarks.peers import PEERS, registry
from benchmarks.peers.environments import install, missing, versions
from benchmarks.script import argument_parser
from benchmarks.tables import print_tables


def table() -> Table:
    """A row for each peer; beneath, why some cannot run."""
    rows, notes = [], []
    for name, peer in PEERS.items():
        problem = missing(name)
        installed = ", ".join(f"{package} {number}" for package, number in versions(name).items())
        rows.append(
            [name, ", ".join(sorted(peer.abilities)), "no" if problem else "yes", installed or "-", peer.summary]
        )
        notes += [f"{name}: {problem}"] if problem else []
    return Table("Peers", ["name", "does", "installed", "versions", "what it is"], rows, notes)


def main(argv: Sequence[str]) -> None:
    parser = argument_parser("peers", __doc__)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    installer = commands.add_parser("install", help="make the environments of some peers", prog="peers install")
    installer.add_argument("names", nargs="+", metavar="NAME")
    arguments = parser.parse_args(argv)
    if arguments.command == "install":
        registry.refuse_unknown(arguments.names, "install")
        install(arguments.names)
    print_tables([table()])
