"""The site. Its sources are the repository's own Markdown, read from the root, so that one link works on GitHub and here."""

import os
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "docs")]
os.environ["TIGHTROPE_COMPILATION_CACHE"] = "off"  # the gallery shows what a newcomer sees

import tightrope as tr  # noqa: E402

project, author, copyright = "tightrope", "The tightrope developers", "The tightrope developers"
version = release = tr.__version__
root_doc = "docs/index"
include_patterns = [
    "docs/**",
    "benchmarks/*.md",
    "benchmarks/benchopt/*.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "CODE_OF_CONDUCT.md",
    "SECURITY.md",
]
exclude_patterns = [
    ".*",
    "out",
    "src",
    "tests",
    "studies",
    "torture",
    "examples",
    "dist",
    "build",
    "**/GALLERY_HEADER.rst",
]

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
]

# ---- pages -----------------------------------------------------------------------------------------------------------

myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 4
highlight_language = "none"  # formulas are no Python; examples are seen by their prompt
default_role = "code"  # a name in single backticks, as in Markdown

html_theme = "pydata_sphinx_theme"
html_title = f"tightrope {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_sidebars = {"docs/index": [], "docs/start": []}  # pages without others below them
html_show_sourcelink = False
html_show_copyright = False
html_theme_options = {
    "navigation_with_keys": False,
    "show_prev_next": False,
    "header_links_before_dropdown": 7,
    "navbar_persistent": ["search-button"],  # with its field the header would take two lines
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": [],
    "footer_end": [],
}

# ---- the reference ---------------------------------------------------------------------------------------------------

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
napoleon_use_ivar = True
napoleon_use_rtype = False
toc_object_entries = False  # a page of the reference lists its names itself

_ITEM = re.compile(r"^\s{4,}\*{0,2}[\w, ]+:")  # "name:" in a list of arguments, which napoleon escapes itself
_MARKS = re.compile(r"(`[^`]*`)|([\\*|]|(?<=\w)_(?!\w))")


def as_plain_text(app, what, name, obj, options, lines):
    """Docstrings are plain sentences: |x|, x* and x_ mean themselves and are no markup."""
    example, block = False, None  # inside an example; how far the text stands in that a block of formulas follows
    for i, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        example = line.lstrip().startswith(">>>") or (example and bool(line.strip()))
        if block is not None and line.strip() and indent <= block:
            block = None
        if not example and block is None:
            head = match.end() if (match := _ITEM.match(line)) else 0
            lines[i] = line[:head] + _MARKS.sub(lambda m: m[1] or "\\" + m[2], line[head:])
            block = indent if line.rstrip().endswith("::") else None


def of_scikit_learn(app, what, name, obj, skip, options):
    """Leave out what scikit-learn adds to every estimator for its routing of metadata."""
    return True if re.fullmatch(r"set_\w+_request", name) else None


def nothing_is_left_out(app, env):
    """A public name without an entry in the reference fails the build."""
    from public_names import public_names
    from sphinx.util.logging import getLogger

    there = env.domaindata["py"]["objects"]
    for name, _ in public_names():
        if name not in there:
            getLogger(__name__).warning(f"{name} is public and has no entry in docs/api.")


# ---- the gallery -----------------------------------------------------------------------------------------------------

sphinx_gallery_conf = {
    "examples_dirs": str(ROOT / "examples" / "gallery"),
    "gallery_dirs": "docs/gallery",
    "filename_pattern": r"\.py$",
    "abort_on_example_error": False,  # all failures are shown at once; each is a warning, and warnings fail the build
    "only_warn_on_example_error": False,
    "remove_config_comments": True,
    "show_signature": False,
    "show_memory": False,
    "write_computation_times": False,
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
}


def a_door_at_the_root(app, error):
    """The first page is docs/index.html; whoever opens the folder is sent there."""
    if error is None and app.builder.format == "html":
        door = '<meta http-equiv="refresh" content="0; url=docs/index.html"><a href="docs/index.html">tightrope</a>'
        (Path(app.outdir) / "index.html").write_text(f"<!doctype html>{door}\n")


def setup(app):
    """Sphinx calls this."""
    app.connect("autodoc-process-docstring", as_plain_text, priority=400)  # before napoleon
    app.connect("autodoc-skip-member", of_scikit_learn)
    app.connect("env-updated", nothing_is_left_out)
    app.connect("build-finished", a_door_at_the_root)
