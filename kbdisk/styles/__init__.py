"""The style of a knowledge base: how it writes its values, so that a filled value looks like its siblings.

    styles = Styles.learn(schema, kb)
    styles.place(entity, ("launch",), Date(2011, 3))     {("launch",): "2011-03"}
                                                         {("launch", "month"): 3} where the year is given already

The schema says what a value is, the knowledge base how it is written. What is learnt here is the form of a value in a tree,
which all formats share; a format adds how that form is spelt in its text. A writer also meets values without a schema: these
resemble the examples at their path.
"""
