"""How a knowledge base writes its values, so that a filled one looks like its siblings.

    shapes = Shapes.learn(schema, kb)
    shapes.place(entity, ("launch",), Date(2011, 3))     {("launch",): "2011-03"}
                                                         {("launch", "month"): 3} where the year is given already

What a value is, the schema says; how it is spelt, the knowledge base.
"""

from kbdisk.shapes.shapes import Shapes

__all__ = ["Shapes"]
