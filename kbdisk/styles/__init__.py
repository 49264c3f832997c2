"""The style of a knowledge base: how it writes its values, so that a filled value looks like its siblings.

    styles = Styles.learn(schema, kb)
    styles.place(entity, ("launch",), Date(2011, 3))     {("launch",): "2011-03"}
                                                         {("launch", "month"): 3} where the year is given already

The schema says what a value is, the knowledge base how it is spelt.
"""

from kbdisk.styles.styles import Styles

__all__ = ["Styles"]
