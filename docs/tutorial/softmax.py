#!/usr/bin/env python3
"""A kernel process in Python: softmax of the rows of a matrix in f32.

    tokitai check softmax.forward --exec ./softmax.py

It serves the kernel profile of docs/protocol.md with the standard library alone.
"""
import array, math, os, socket, struct

HELLO, CALL, LIST, OK, ERROR = 1, 2, 10, 256, 257
F32 = 3


def string(text):
    return struct.pack("<I", len(text.encode())) + text.encode()


def error(code, message):
    return ERROR, struct.pack("<I", code) + string(message) + struct.pack("<I", 0)


def softmax(row):
    top = max(row)
    powers = [math.exp(v - top) for v in row]
    total = math.fsum(powers)
    return [p / total for p in powers]


def call(body):
    at = 0

    def take(form):
        nonlocal at
        values = struct.unpack_from("<" + form, body, at)
        at += struct.calcsize("<" + form)
        return values

    def text():
        return take("%ds" % take("I"))[0].decode()

    take("I")                                        # the number of calls, which is 1
    text(), take("4B"), text()                       # the definition, options, the lowering: as in LIST
    for _ in range(*take("I")):
        text(), take("d")                            # parameters: softmax has none
    shapes = {}
    for _ in range(*take("I")):
        name, (dtype, _, _) = text(), take("3B")
        shapes[name] = take("%dQ" % take("I"))
        if dtype != F32:
            return error(2, "%s has dtype %d, want %d (f32)" % (name, dtype, F32))
    rows, cols = shapes["x"]
    x, y = array.array("f", body[at:]), array.array("f")
    for r in range(rows):
        y.extend(softmax(x[r * cols:(r + 1) * cols]))
    return OK, struct.pack("<QI", 0, 1) + string("softmax.py") + y.tobytes()


def main():
    pipe = socket.socket(fileno=int(os.environ["TOKITAI_FD"])).makefile("rwb")
    while header := pipe.read(24):
        length, request, kind, _ = struct.unpack("<QQII", header)
        body = pipe.read(length)
        if kind == HELLO:
            reply = OK, struct.pack("<IQ", 1, 1) + string("softmax.py") + string("cpu") + string("Python") + struct.pack("<QQI", 1 << 30, 1 << 30, 0)
        elif kind == LIST:
            reply = OK, struct.pack("<I", 1) + string("softmax.forward") + struct.pack("<II", 0, 0)
        elif kind == CALL:
            reply = call(body)
        else:
            reply = error(10, "kind %d is not supported" % kind)
        pipe.write(struct.pack("<QQII", len(reply[1]), request, reply[0], 0) + reply[1])
        pipe.flush()


main()
