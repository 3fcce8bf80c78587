"""How Sphinx builds these pages: ``sphinx-build -W docs site``."""

from pathlib import Path
from typing import Any

import typer.cli
from docutils.nodes import SkipNode
from latex2mathml.converter import convert
from sphinx_gallery.sorting import ExplicitOrder

import monro
from monro.cli import app as commands

project = "monro"
author = "The monro developers"
version = release = monro.__version__
copyright = author

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["results"]
suppress_warnings = ["config.cache"]  # the gallery's settings have functions: not comparable

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

autodoc_typehints = "none"  # docstrings name types in the reader's words
autodoc_member_order = "bysource"
napoleon_use_ivar = True  # attributes that are properties are described once
napoleon_use_rtype = False

toc_object_entries_show_parents = "hide"
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_title = "monro"
html_static_path = ["static"]
html_css_files = ["page.css"]
html_show_sourcelink = False
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "show_toc_level": 2,
    "navigation_with_keys": False,
}
html_sidebars = {"index": []}
html_math_renderer = "mathml"


def plain_plots(gallery: Any, file: str) -> None:
    """Draw all plots in one style."""
    import matplotlib.pyplot as plt

    plt.rcdefaults()
    plt.rcParams.update(
        {
            "figure.figsize": (6.5, 4.0),
            "figure.dpi": 120,
            "figure.constrained_layout.use": True,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "grid.alpha": 0.3,
            "legend.frameon": False,
        }
    )


sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "subsection_order": ExplicitOrder(["../examples/methods", "../examples/tools"]),
    "reset_modules": (plain_plots,),
    "reset_modules_order": "before",
    "download_all_examples": False,
    "show_signature": False,
    "abort_on_example_error": True,
}


def _formula(display: str) -> Any:
    def visit(translator: Any, node: Any) -> None:
        translator.body.append(convert(node.astext(), display=display))
        raise SkipNode

    return visit


def _write_commands(app: Any) -> None:
    """Write the page of the command line from what the commands say of themselves."""
    context = typer.Context(typer.main.get_command(commands))
    text = typer.cli.get_docs_for_click(
        obj=context.command, ctx=context, name="monro", title="Command line"
    )
    Path(app.srcdir, "api", "commands.md").write_text(text)


def setup(app: Any) -> None:
    """Write formulas as MathML, which browsers draw without a script or a network."""
    app.add_html_math_renderer("mathml", (_formula("inline"), None), (_formula("block"), None))
    app.connect("builder-inited", _write_commands)
