"""What every page is drawn on: templates that escape, one style sheet, one script, and the policy that names them.

Every value that a template prints passes through `visible`, then through the template engine's escaping.
"""

import base64
import hashlib

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from app.report.escaping import visible


def _shown(value: object) -> object:
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def lines(text: str) -> Markup:
    """A text of several lines, escaped, its line ends kept."""
    return escape(visible(text, lines=True))


def exact(text: str) -> Markup:
    """A text escaped and otherwise as it is, for a form to send back; a browser shows it to nobody."""
    return escape(text.encode("utf-8", "backslashreplace").decode())


TEMPLATES = Environment(
    loader=PackageLoader("app.report"),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=_shown,
    trim_blocks=True,
    lstrip_blocks=True,
)
TEMPLATES.filters.update(passage=lines, exact=exact)

STYLE = Markup(TEMPLATES.get_template("report.css").render())  # noqa: S704 — our own file, hashed below
SCRIPT = Markup(TEMPLATES.get_template("report.js").render())  # noqa: S704 — our own file, hashed below


def _hash(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


_ALLOWED = f"default-src 'none'; style-src {_hash(STYLE)}; script-src {_hash(SCRIPT)}; base-uri 'none'"

FILE_POLICY = f"{_ALLOWED}; form-action 'none'"
"""What the single file allows itself: its own style sheet and script; it asks and sends nothing."""

SERVICE_POLICY = f"{_ALLOWED}; connect-src 'self'; form-action 'self'; frame-ancestors 'none'"
"""The same for pages of the service, which send forms and read progress from it. Fit for a header."""
