"""Prints the newest schema of every operator: name, inputs, outputs, attributes, a line each."""

import onnx.defs

KINDS = {"INT": "int", "FLOAT": "float", "STRING": "string", "INTS": "ints", "FLOATS": "floats",
         "STRINGS": "strings", "TENSOR": "tensor"}
ARITIES = {"Single": "", "Optional": "?", "Variadic": "*"}

newest = {}
for schema in onnx.defs.get_all_schemas():
    if schema.domain == "":
        newest[schema.name] = schema


def operands(rows):
    return " ".join(row.name + ARITIES[row.option.name] for row in rows)


for name, schema in sorted(newest.items()):
    attributes = sorted(
        f"{row.name}:{KINDS.get(row.type.name, row.type.name)}{'!' if row.required else ''}"
        for row in schema.attributes.values()
    )
    print("|".join([name, operands(schema.inputs), operands(schema.outputs), " ".join(attributes)]))
