"""Canonical form: one spelling for every value, and the limits of values."""

from __future__ import annotations

from typing import Any

from conformance.catalog import vector
from conformance.scene import edit_line, edit_receipt, note_spelled, only, put, rehashed, short, with_data
from kit.recordings import Files

MAX = 2**53 - 1


def refused(phrase: str, old: bytes, new: bytes, rules: str, comment: str) -> None:
    vector("canonical", phrase, "failed", "ledger.form", rules=rules, comment=comment)(lambda: note_spelled(old, new))


for _phrase, _old, _new, _rules, _comment in (
    ("fraction", b'"n":1', b'"n":1.5', "C-3", "A number with a fraction."),
    ("integer-as-fraction", b'"n":1', b'"n":1.0', "C-3", "1.0 denotes an integer and is refused all the same."),
    ("exponent", b'"n":1', b'"n":1e2', "C-3", "An exponent."),
    ("negative-zero", b'"n":1', b'"n":-0', "C-3", "-0 is no spelling of 0."),
    ("leading-zero", b'"n":1', b'"n":01', "C-3", "A leading zero is no JSON."),
    ("plus-sign", b'"n":1', b'"n":+1', "C-3", "A plus sign is no JSON."),
    (
        "integer-2-53",
        b'"n":1',
        b'"n":9007199254740992',
        "C-3",
        "2^53: JSON.parse reads it exactly, 2^53+1 it would not.",
    ),
    ("integer-2-53-plus-1", b'"n":1', b'"n":9007199254740993', "C-3", "2^53+1 round-trips in some libraries."),
    ("integer-minus-2-53", b'"n":1', b'"n":-9007199254740992', "C-3", "-2^53."),
    ("integer-2-64", b'"n":1', b'"n":18446744073709551616', "C-3", "2^64."),
    ("integer-of-400-digits", b'"n":1', b'"n":' + b"9" * 400, "C-3", "An integer that becomes infinite as a double."),
    ("nan", b'"n":1', b'"n":NaN', "C-2", "NaN is no JSON."),
    ("space-after-colon", b'"n":1', b'"n": 1', "C-2", "White space."),
    ("space-at-the-end", b"}\n", b"} \n", "C-2", "White space after the value."),
    ("tab-before-value", b'{"by"', b'\t{"by"', "C-2", "White space before the value."),
    ("carriage-return", b"}\n", b"}\r\n", "C-1 C-2", "CRLF."),
    ("byte-order-mark", b'{"by"', b'\xef\xbb\xbf{"by"', "C-2", "A BOM; some decoders drop it silently."),
    ("trailing-value", b"}\n", b"}{}\n", "C-2", "A second value on the line."),
    ("members-out-of-order", b'{"n":1,"text":"x"}', b'{"text":"x","n":1}', "C-2", "Members not sorted."),
    ("duplicate-name", b'"n":1', b'"n":1,"n":1', "C-4", "Two members of one name, even with one value."),
    ("duplicate-name-escaped", b'"n":1', b'"n":1,"\\u006e":2', "C-2 C-4", "The same name, once escaped."),
    ("name-empty", b'"n":1', b'"":1,"n":1', "C-4", "An empty name."),
    ("name-beyond-ascii", b'"text":"x"', '"té":1,"text":"x"'.encode(), "C-4", "A name with U+00E9."),
    ("name-with-delete", b'"n":1', b'"n\x7f":1', "C-4", "U+007F is above U+007E."),
    ("name-with-control", b'"n":1', b'"\\n":1,"n":1', "C-4", "A line feed in a name, escaped."),
    ("name-of-129", b'"n":1', b'"' + b"n" * 129 + b'":1', "C-4", "One character too many."),
    ("escape-not-needed", b'"text":"x"', b'"text":"\\u0078"', "C-2", "A letter as an escape."),
    (
        "escape-of-solidus",
        b'"text":"x"',
        b'"text":"a\\/b"',
        "C-2",
        "JSON allows an escaped solidus, JCS does not write it.",
    ),
    ("escape-upper-case", b'"text":"x"', b'"text":"\\u001F"', "C-2", "Upper-case hex in an escape."),
    ("escape-long-form", b'"text":"x"', b'"text":"\\u000a"', "C-2", "A line feed has the short escape."),
    ("escape-of-line-separator", b'"text":"x"', b'"text":"\\u2028"', "C-2", "U+2028 stands literally; Go escapes it."),
    ("escape-of-ampersand", b'"text":"x"', b'"text":"\\u0026"', "C-2", "Go escapes <, > and &."),
    ("raw-control", b'"text":"x"', b'"text":"\x01"', "C-2", "A control character must be escaped."),
    ("lone-surrogate-escaped", b'"text":"x"', b'"text":"\\ud800"', "C-5", "JSON.parse keeps it."),
    (
        "surrogate-pair-escaped",
        b'"text":"x"',
        b'"text":"\\ud83d\\ude00"',
        "C-2",
        "An astral character stands literally.",
    ),
    ("lone-surrogate-encoded", b'"text":"x"', b'"text":"\xed\xa0\x80"', "C-5", "CESU: a surrogate in UTF-8."),
    ("bad-utf-8", b'"text":"x"', b'"text":"\xff"', "C-2", "A byte that is never UTF-8."),
    ("overlong-utf-8", b'"text":"x"', b'"text":"\xc1\x81"', "C-2", "An overlong encoding of A."),
    ("nul-byte", b'"text":"x"', b'"text":"\x00"', "C-2", "A NUL, as a torn sector leaves it."),
    ("true-in-capitals", b'"n":1', b'"n":True', "C-2", "No JSON."),
    ("trailing-comma", b'"text":"x"}', b'"text":"x",}', "C-2", "No JSON."),
):
    refused(_phrase, _old, _new, _rules, _comment)


def nested(levels: int, innermost: Any) -> Any:
    value = innermost
    for _ in range(levels):
        value = [value]
    return value


@vector("canonical", "depth-33", "failed", "ledger.form", rules="C-6", comment="An array at depth 33, empty.")
def _() -> Files:
    lines = with_data({"deep": nested(29, "here")})  # event 1, data 2, arrays 3 to 31
    return edit_line(lines, 1, lambda line: rehashed(line.replace(b'"here"', b"[[]]")))


@vector("canonical", "not-an-object", "failed", "ledger.form", rules="C-1", comment="An array where an event belongs.")
def _() -> Files:
    return edit_line(with_data({}), 1, lambda line: b"[]\n")


@vector("canonical", "empty-line", "failed", "ledger.form", rules="C-1", comment="An empty line between two events.")
def _() -> Files:
    return edit_line(with_data({}), 1, lambda line: b"\n" + line)


for _phrase2, _old2, _new2, _rules2, _comment2 in (
    ("receipt-with-space", b'"drill":false', b'"drill": false', "C-2", "White space in a receipt."),
    ("receipt-with-bom", b'{"caps"', b'\xef\xbb\xbf{"caps"', "C-2", "A receipt with a BOM."),
    ("receipt-with-crlf", b"}\n", b"}\r\n", "C-1", "A receipt that ends in CRLF."),
    ("receipt-without-lf", b"}\n", b"}", "C-1", "A receipt without its LF."),
    ("receipt-with-two-lf", b"}\n", b"}\n\n", "C-1", "A receipt with an empty line after it."),
    ("receipt-with-a-second-document", b"}\n", b"}\n{}\n", "C-1", "A second document after the receipt."),
    ("receipt-with-float", b'"errors":0', b'"errors":0.0', "C-3", "A fraction in a receipt."),
    ("receipt-with-duplicate", b'"drill":false', b'"drill":false,"drill":false', "C-4", "A name twice in a receipt."),
):

    def _make(old: bytes = _old2, new: bytes = _new2) -> Files:
        files = only(short().files(), "receipt.json")
        data = files["receipt.json"]
        at = data.rindex(old)
        return {"receipt.json": data[:at] + new + data[at + len(old) :]}

    vector("canonical", _phrase2, "failed", "receipt.form", rules=_rules2, comment=_comment2)(_make)


def accepted(phrase: str, rules: str, comment: str, data: Any) -> None:
    vector("canonical", phrase, "unfinished", rules=rules, comment=comment)(lambda: with_data(data))


accepted("accept-largest-integers", "C-3", "2^53-1 and its negative.", {"most": MAX, "least": -MAX, "zero": 0})
accepted(
    "accept-strange-names",
    "C-4",
    "Names that programs give a meaning to, and every corner of the allowed characters.",
    {
        "__proto__": 1, "constructor": {"prototype": []}, "1": "one", "Seq": 7, "SEQ": 8, "seq": 9, "hash": "x",
        " ": "space", '"': "quote", "\\": "backslash", "~": "tilde", "a" * 128: "long", "toString": None, "length": 0,
    },
)  # fmt: skip
accepted("accept-depth-32", "C-6", "An empty object at depth 32.", {"deep": nested(29, {})})
accepted(
    "accept-every-kind-of-text",
    "C-2 C-5",
    "Astral characters, separators, controls, non-characters, combining marks; nothing is normalised.",
    {
        "astral": "😀𐍈\U0010ffff", "separators": "\u2028\u2029", "markup": "<a href='x'>&</a>", "solidus": "a/b",
        "controls": "".join(map(chr, range(0x20))) + "\x7f\x80", "composed": "é", "decomposed": "e\u0301",
        "bom": "\ufeff", "non-character": "\uffff", "private-use": "\ue000", "below-surrogates": "\ud7ff",
    },
)  # fmt: skip
accepted(
    "accept-empty-values", "C-1", "Empty objects, arrays and strings.",
    {"object": {}, "array": [], "string": "", "nested": [[], {}, [{}]], "null": None, "booleans": [True, False]},
)  # fmt: skip


@vector(
    "canonical",
    "accept-receipt-with-unknown-members",
    "verified",
    rules="R-1 L-8 C-4",
    comment="Unknown members of a receipt are signed and never judged; their order among the known is by code unit.",
)
def _() -> Files:
    def change(receipt: Any) -> None:
        put("zz_future", {"nested": [1, "😀"]})(receipt)
        put("Aa", None)(receipt)
        put("session.weather", "fine")(receipt)
        put("caps.usd.currency", "USD")(receipt)

    return edit_receipt(short(), change, sign=True)
