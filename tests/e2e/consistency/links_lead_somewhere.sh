#!/bin/bash
# Every link of the Markdown pages leads to a file and a heading, and every path that they name from the top (not the changelog's) is there.
set -u
cd "$(dirname "$0")/../../.." || exit 1

# check [OLD NEW]: all links, as if NEW stood for OLD in every page.
check() {
    python3 - "$@" <<'END'
import glob, os, re, sys

def read(path):
    with open(path) as f:
        return re.sub(r"^```.*?^```", "", f.read(), flags=re.M | re.S)

def anchors(path):
    """What GitHub calls the headings of a page."""
    titles = re.findall(r"^#+ +(.*?) *$", read(path), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}

pages = []
for folder, below, names in os.walk("."):
    below[:] = [name for name in below if name[0] != "." and name not in ("build", "shared")]
    pages += [os.path.normpath(os.path.join(folder, name)) for name in names if name.endswith(".md")]
PATH = re.compile(r"`((?:shim|analyzer|kernels|tests|examples|scripts|docs)/[^\s`]*)(?: [^`]*)?`")
bad = links = paths = 0
for page in sorted(pages):
    text = read(page).replace(*sys.argv[1:]) if sys.argv[1:] else read(page)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        links += 1
        path, _, anchor = target.partition("#")
        path = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
        if not os.path.exists(path):
            bad = not print(f"{page}: {target}: there is no such file")
        elif anchor and anchor not in anchors(path):
            bad = not print(f"{page}: {target}: the page has no such heading")
    for path in [] if page == "CHANGELOG.md" else PATH.findall(text):
        if re.search(r"(?<![a-z])[A-Z]+(?![a-z])", path):
            continue
        paths += 1
        if not glob.glob(path):
            bad = not print(f"{page}: `{path}`: there is no such file")
print(f"{links} links and {paths} paths of {len(pages)} pages")
sys.exit(1 if bad or links < 20 or paths < 20 else 0)
END
}
check || exit 1
# it must be able to fail
for wrong in '(docs/design.md) (docs/designs.md)' '#result) #results)' '`tests/gpu/roads.sh `tests/gpu/road.sh'; do
    # shellcheck disable=SC2086 # two words
    if check $wrong >/dev/null; then
        echo "a link changed like this would go unnoticed: $wrong"
        exit 1
    fi
done
