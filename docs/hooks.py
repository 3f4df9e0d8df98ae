"""What the site needs beside its pages: mathematics as MathML, and the pages that are made of the code itself.

MkDocs calls the functions that begin with ``on_``.
"""

from __future__ import annotations

import html
import importlib
import inspect
import re
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING, Any

from latex2mathml.converter import convert

import safespot
from safespot.learners.signature import described

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
# MathML needs a font with a table for mathematics, which not every system has. This one is under the Open Font License.
FONT = Path(str(distribution("ziamath").locate_file("ziamath/fonts/STIXTwoMath-Regular.ttf")))
# Public modules beside the ones that `safespot` itself takes names from.
MODULES = (
    "errors", "experiments", "gym", "learners", "logs", "problems", "signals", "theory", "training", "report",
    "experiments.summary",
)  # fmt: skip
MATH = re.compile(r'<(span|div) class="arithmatex">\\[(\[](?P<latex>.*?)\\[)\]]</\1>', re.DOTALL)
TEST = re.compile(r"<td><code>tests/[^<]+::[^<]+")
# Browsers break a line on either side of a formula, even before a comma.
TOUCHING = re.compile(r'[(\[]*<span class="math">.*?</math></span>[)\].,;:]*', re.DOTALL)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put a page for each public module behind the reference's first page."""
    for section in config.nav or []:
        if "Reference" in section:
            names, *catalogue = section["Reference"]
            modules = [{module: _page(module)} for module in public_modules()]
            command = {"The command": "reference/command.md"}
            section["Reference"] = [names, command, *catalogue, {"Modules": modules}]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made of the code."""
    from mkdocs.structure.files import File

    for path, text in made_pages().items():
        files.append(File.generated(config, path, content=text))
    files.append(File.generated(config, "assets/math.ttf", abs_src_path=str(FONT)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Lead links to files outside docs/ to the pages that show them."""
    markdown = re.sub(r"\]\((?:\.\./)+examples(?:/sweeps)?/?\)", "](examples.md)", markdown)
    return re.sub(
        r"\]\((?:\.\./)+examples/(?:sweeps/|service/)?([\w.-]+)\)",
        lambda match: f"](examples.md#{_anchor(match[1])})",
        markdown,
    )


def on_page_content(html: str, page: Page, **_: Any) -> str:
    """Turn LaTeX into MathML, which browsers read without a script, and let the long names of tests wrap."""
    html = TEST.sub(lambda match: re.sub("::|_", r"\g<0><wbr>", match[0]), html)
    return TOUCHING.sub(r'<span class="unbroken">\g<0></span>', MATH.sub(_mathml, html))


def public_modules() -> dict[str, list[str]]:
    """The public names by the module that documents them; what two modules offer stands in the first."""
    homes: dict[str, list[str]] = {}
    for name, home in safespot._HOME.items():
        if home != ".":
            homes.setdefault(home[1:], []).append(name)
    known = {id(getattr(_module(home), name)) for home, names in homes.items() for name in names}
    for module in (*homes, *MODULES):
        found = _module(module)
        if module in MODULES or hasattr(found, "__all__"):
            new = [name for name in _public(found) if id(getattr(found, name)) not in known]
            homes.setdefault(module, []).extend(new)
            known |= {id(getattr(found, name)) for name in new}
    return dict(sorted(homes.items()))


def made_pages() -> dict[str, str]:
    """Path -> Markdown of every page that is made of the code or of files outside docs/."""
    modules = public_modules()
    return {
        "changelog.md": (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"),
        "examples.md": "\n".join(_examples()),
        "reference.md": "\n".join(_index(modules)),
        "reference/command.md": "\n".join(_commands()),
        **{
            _page(module): "\n".join(_reference(module, names)) for module, names in modules.items()
        },
    }


def path_of(module: str, name: str) -> str:
    """What a user writes to get it."""
    return f"safespot.{name}" if name in safespot.__all__ else f"safespot.{module}.{name}"


def _mathml(match: re.Match[str]) -> str:
    """MathML of what was matched.

    The converter knows no `aligned`, takes no backslash off a large brace, lets only the first of two bars grow, and
    sets no space between a function's name and its argument.
    """
    latex = html.unescape(match["latex"]).replace("{aligned}", "{align*}")
    display = "block" if match[1] == "div" else "inline"
    made = re.sub(r">\\([{}])<", r">\1<", convert(latex, display=display))
    made = re.sub(
        r"<mo>(&#x02016;|&#x0007C;)", r'<mo stretchy="false" lspace="0" rspace="0">\1', made
    )
    made = re.sub(r"(<mi>ln</mi>)(<m(?!o))", r'\1<mspace width="0.167em" />\2', made)
    return made if display == "block" else f'<span class="math">{made}</span>'


def _module(name: str) -> Any:
    return importlib.import_module(f"safespot.{name}")


def _page(module: str) -> str:
    return f"reference/{module}.md"


def _public(module: Any) -> list[str]:
    """What a module offers: its ``__all__``, or what it defines itself."""
    own = (
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    )
    return list(getattr(module, "__all__", own))


def _first_line(value: Any) -> str:
    return (inspect.getdoc(value) or "").partition("\n\n")[0].replace("\n", " ").replace("|", r"\|")


def _index(modules: dict[str, list[str]]) -> Iterator[str]:
    yield "# Reference\n"
    yield "Every public name, by the module it comes from; `import safespot as ss` gives those without a dot in front"
    yield "of them. The [command](reference/command.md) has a page, too.\n"
    yield "| name | what it is |\n|---|---|"
    for module, names in modules.items():
        home = _module(module)
        for name in names:
            path = path_of(module, name)
            shown = (
                name if safespot._HOME.get(name) == f".{module}" else path.removeprefix("safespot.")
            )
            yield f"| [`{shown}`]({_page(module)}#{path}) | {_first_line(getattr(home, name))} |"


def _reference(module: str, names: list[str]) -> Iterator[str]:
    yield f"# `safespot.{module}`\n"
    yield inspect.getdoc(_module(module)) or ""
    if module == "learners":
        yield from _learner_options()
    for name in names:
        yield f"\n::: {path_of(module, name)}"


def _learner_options() -> Iterator[str]:
    """Every option with who takes it; what it means stands in the docstring of a record of options."""
    takers: dict[tuple[str, str], list[str]] = {}
    for learner in safespot.learners.names():
        meanings = described(safespot.learners.find(learner).options_type)
        for option in safespot.learners.options(learner):
            takers.setdefault((option, meanings[option]), []).append(learner)
    count = len(safespot.learners.names())
    yield "\n## The options\n\n| option | meaning | taken by |\n|---|---|---|"
    for (option, meaning), learners in sorted(takers.items(), key=lambda item: -len(item[1])):
        who = "all" if len(learners) == count else ", ".join(f"`{name}`" for name in learners)
        yield f"| `{option}` | {meaning} | {who} |"


def _commands() -> Iterator[str]:
    """The command's own help, as a page."""
    from typer.main import get_command

    from safespot.cli import app

    command: Any = get_command(app)
    yield f"# The command\n\n{command.help} [How to use it](../command.md).\n"
    yield from _parameters(command)
    for name, sub in _subcommands(command):
        pieces = sub.collect_usage_pieces(sub.make_context(name, [], resilient_parsing=True))
        usage = " ".join(["safespot", name, *pieces])
        about, _, examples = inspect.cleandoc(sub.help).partition("\b\nExamples:\n")
        yield f"\n## {name}\n\n```\n{usage}\n```\n\n{about}"
        yield from _parameters(sub)
        if examples:
            yield f"\nExamples:\n\n```sh\n{inspect.cleandoc(examples)}\n```"


def _subcommands(command: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    """Every subcommand, those of subcommands behind them, by the words that call it."""
    for name, sub in command.commands.items():
        yield above + name, sub
        if hasattr(sub, "commands"):
            yield from _subcommands(sub, f"{above}{name} ")


def _parameters(command: Any) -> Iterator[str]:
    yield "\n| option | meaning | default |\n|---|---|---|"
    for parameter in command.params:
        names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
        if parameter.param_type_name == "argument":
            names = f"`{parameter.metavar or parameter.name.upper()}`"
        default = parameter.default if isinstance(parameter.default, str | int | float) else ""
        shown = "" if default in ("", False) else f"`{default}`"
        help_text = (getattr(parameter, "help", None) or "").replace("|", r"\|")
        yield f"| {names.replace('|', ' or ')} | {help_text} | {shown} |"


def _examples() -> Iterator[str]:
    """The scripts and sweeps of examples/, whole."""
    yield "# Examples\n\nScripts to run and to change, then sweeps for `safespot sweep FILE --out STORE`.\n"
    for folder, pattern, language in (
        ("examples", "*.py", "python"),
        ("examples/service", "*.py", "python"),
        ("examples/service", "*.sh", "sh"),
        ("examples/sweeps", "*.toml", "toml"),
    ):
        for file in sorted((ROOT / folder).glob(pattern)):
            text = file.read_text(encoding="utf-8").rstrip()
            yield f"## {file.name} {{ #{_anchor(file.name)} }}\n\n```{language}\n{text}\n```\n"


def _anchor(file_name: str) -> str:
    return file_name.replace(".", "-")
