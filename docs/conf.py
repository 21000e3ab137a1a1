"""How the site is built: ``python -m pip install -e ".[docs]" && python -m sphinx -W docs docs/_build``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ.setdefault("MPLBACKEND", "agg")
HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

import numpydoc.xref  # noqa: E402
from api_pages import find_types  # noqa: E402
from sphinx_gallery.sorting import FileNameSortKey  # noqa: E402
from two_papers import scrape  # noqa: E402

import scoreprism  # noqa: E402

project = "scoreprism"
author = "The scoreprism developers"
copyright = "The scoreprism developers"  # noqa: A001 - Sphinx's name
version = release = scoreprism.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "api_pages",
    "mathml",
    "shown_output",
]
exclude_patterns = ["_build", "_made", "_ext", "gallery", "tutorials", "Thumbs.db", ".DS_Store"]
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
suppress_warnings = [
    "config.cache",  # a function and a class in sphinx_gallery_conf
]
nitpicky = True
nitpick_ignore_regex = [(r"py:.*", r"(?!scoreprism).*")]  # names of other libraries, which this site does not hold

# Markdown
myst_enable_extensions = ["attrs_block", "attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4

# API
default_role = "py:name"
autodoc_typehints = "none"  # numpydoc says them in words
autodoc_member_order = "groupwise"
autosummary_generate = False  # api_pages writes the pages
numpydoc_show_class_members = False
numpydoc_xref_param_type = True
numpydoc_xref_aliases = find_types()
numpydoc.xref.DEFAULT_LINKS.clear()  # they lead to pages of Python and numpy, which are not part of this site
numpydoc_xref_ignore = "all"
numpydoc_class_members_toctree = False

# Examples: docs/gallery and docs/tutorials hold scripts, which the build runs
sphinx_gallery_conf = {
    "examples_dirs": ["gallery", "tutorials"],
    "gallery_dirs": ["auto_gallery", "auto_tutorials"],
    "subsection_order": "gallery_order.order_sections",
    "filename_pattern": r"[\\/]plot_",
    "within_subsection_order": FileNameSortKey,
    "image_scrapers": (scrape,),
    "reset_modules": ("matplotlib",),
    "capture_repr": ("_repr_html_", "__repr__"),
    "ignore_repr_types": r"Display",  # the figure is shown
    "doc_module": ("scoreprism",),
    "backreferences_dir": "api/generated/backreferences",
    "reference_url": {"scoreprism": None},
    "download_all_examples": False,
    "remove_config_comments": True,
    "write_computation_times": False,  # its pages load scripts from elsewhere
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1e9,
    "plot_gallery": "True",
}

# Pages: nothing is asked of another host when they are read
html_theme = "pydata_sphinx_theme"
html_title = "scoreprism"
html_favicon = "_static/favicon.svg"
html_context = {"default_mode": "auto"}
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = [("site.js", {"defer": "defer"})]
templates_path = ["_templates"]
html_math_renderer = "mathml"
html_copy_source = False
html_show_sourcelink = False
html_sidebars = {"index": [], "start": [], "glossary": [], "changelog": [], "citing": []}
html_theme_options = {
    "logo": {"text": "scoreprism"},
    "header_links_before_dropdown": 5,
    "show_prev_next": True,
    "navbar_end": ["theme-switcher"],
    "navbar_align": "left",
    "secondary_sidebar_items": ["page-toc", "sg_download_links"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_toc_level": 2,
    "back_to_top_button": True,
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True
copybutton_exclude = ".linenos, .gp, .go"
