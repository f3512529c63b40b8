"""A report as one HTML file: what docket says of a run as text, the documents it rests on, and the verifier over them.

Invariants: nothing of a run is markup; no script runs but the one whose digest the page's own policy names; the page
asks nobody; and it claims no verdict, which its verifier finds where it is read.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from html import escape

TITLES = frozenset({"Models:", "Findings:", "What acted:", "What this receipt does not show:"})
"""Lines of a report that head those below them."""
NAME = 12
"""Columns of the name that begins a line, as in the report in words: at most ten letters and two spaces."""
STYLE = """
:root { color-scheme: light dark; --line: #8885; --good: #1d6b33; --bad: #b3261e; --doubt: #8a5300; }
@media (prefers-color-scheme: dark) { :root { --good: #7bd592; --bad: #ff9d94; --doubt: #f2bd6b; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin: 1.5rem 0 .3rem; }
dl { display: grid; grid-template-columns: minmax(7rem, max-content) 1fr; gap: .1rem 1rem; margin: .8rem 0; }
dt { font-weight: 600; } dd { margin: 0; overflow-wrap: anywhere; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: .3rem 0; }
.said { border-left: 4px solid var(--doubt); padding: .3rem .8rem; }
#verdict { font-size: 1.4rem; font-weight: 600; margin: .3rem 0; }
.verified { color: var(--good); } .failed, .unreadable { color: var(--bad); }
.incomplete, .recovered, .unsealed, .unfinished { color: var(--doubt); }
table { border-collapse: collapse; width: 100%; }
td { border-bottom: 1px solid var(--line); padding: .1rem .6rem .1rem 0; vertical-align: top; overflow-wrap: anywhere; }
td.fail { color: var(--bad); font-weight: 600; }
input { font: inherit; max-width: 100%; }
"""
SCRIPT = """
const at = (id) => document.getElementById(id);

/** Show `text` in a new element below `parent`; never as markup. */
function add(parent, tag, text, kind = "") {
  const element = document.createElement(tag);
  element.textContent = text;
  if (kind) element.className = kind;
  parent.append(element);
  return element;
}

/** The documents that the page holds, as a browser's files. */
function held() {
  return [...document.querySelectorAll("script[data-name]")].map((element) => {
    const bytes = Uint8Array.from(atob(element.textContent.trim()), (character) => character.charCodeAt(0));
    return new File([bytes], element.dataset.name);
  });
}

async function judge() {
  const verdict = at("verdict");
  at("remarks").replaceChildren();
  at("checks").replaceChildren();
  verdict.className = "";
  verdict.textContent = "reading …";
  const pin = at("pin").value.trim();
  const pinned = /^[0-9a-f]{64}$/.test(pin);
  let found;
  try {
    found = await verifyFiles(held(), pinned ? { run_key: pin } : {});
  } catch (error) {
    verdict.textContent = `this browser cannot verify: ${error.message}`;
    return;
  }
  verdict.className = found.verdict;
  verdict.textContent = found.verdict;
  if (pin !== "" && !pinned) add(at("remarks"), "li", "the run key is not 64 hexadecimal digits: it was not used");
  for (const remark of found.remarks) add(at("remarks"), "li", remark);
  for (const { id, status, detail } of found.checks) {
    const row = add(at("checks"), "tr", "");
    add(row, "td", id);
    add(row, "td", status, status);
    add(row, "td", detail);
  }
}

at("pin").addEventListener("change", judge);
judge();
"""


def verifier_of(page: str) -> str:
    """Return the verifier's script, as it stands in the verifier's own page ``page`` before what drives that page."""
    _, _, rest = page.partition('<script type="module">\n')
    script, found, _ = rest.partition("\n\n// The page.\n")
    assert found, "the page says where its own part begins"
    return script


def page(
    *, title: str, lines: Sequence[str], documents: Mapping[str, bytes], without: Iterable[str], verifier: str
) -> str:
    """Return the page.

    ``lines`` is the report in words, without control characters; ``documents`` are verified by their names;
    ``without`` says, a sentence each, what the page does not hold; ``verifier`` defines ``verifyFiles``.
    """
    script = f"\n{verifier}\n{SCRIPT}"
    assert "</script" not in script.lower(), "the script would end its own element"
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(STYLE)}'; base-uri 'none';"
        " form-action 'none'"
    )
    held = "\n".join(
        f'<script type="application/octet-stream" data-name="{escape(name)}">{base64.b64encode(data).decode()}</script>'
        for name, data in documents.items()
    )
    absent = "".join(f'<p class="said">{escape(sentence)}</p>\n' for sentence in without)
    names = escape(", ".join(documents)) or "nothing"
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{escape(title)}</title>
<style>{STYLE}</style>
<main>
<h1>{escape(title)}</h1>
<section aria-labelledby="checked">
<h2 id="checked">Verification</h2>
<p id="verdict" role="status">not verified: this page verifies itself by its script, which has not run</p>
<p>Found in this browser, over the documents that this page holds: {names}. Whoever made the page chose its script
too: rely on it as far as on where the file comes from, or let <code>docket verify</code> check the run's own files.</p>
{absent}<p><label>Pinned run key (64 hexadecimal digits), optional: <input id="pin" size="66"></label></p>
<ul id="remarks"></ul>
<details><summary>Every check</summary>
<table id="checks"></table></details>
</section>
<section aria-label="Report">
{_body(lines)}
</section>
</main>
{held}
<script type="module">{script}</script>
</html>
"""


def _body(lines: Sequence[str]) -> str:
    """The report's lines: rows of name and text as such, indented ones under their title as they stand."""
    parts: list[str] = []
    rows: list[str] = []
    quoted: list[str] = []

    def flush() -> None:
        if rows:
            parts.append("<dl>" + "".join(rows) + "</dl>")
        if quoted:
            parts.append("<pre>" + escape("\n".join(quoted)) + "</pre>")
        rows.clear()
        quoted.clear()

    for line in lines:
        name, text = line[:NAME], line[NAME:]
        if line in TITLES:
            flush()
            parts.append(f"<h2>{escape(line.removesuffix(':'))}</h2>")
        elif not line:
            flush()
        elif line.startswith(" "):
            if rows:
                flush()
            quoted.append(line.removeprefix("  "))
        elif name.endswith("  ") and text:
            if quoted:
                flush()
            rows.append(f"<dt>{escape(name.strip())}</dt><dd>{escape(text)}</dd>")
        else:
            flush()
            kind = ' class="said"' if line.startswith("no receipt: ") else ""
            parts.append(f"<p{kind}>{escape(line)}</p>")
    flush()
    return "\n".join(parts)


def _hash(text: str) -> str:
    """The digest by which a Content-Security-Policy (level 3, section 2.3.1) names an inline script or style."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
