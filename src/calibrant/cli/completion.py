"""``calibrant completion``: a script that completes commands, options and their choices by Tab.

The script is made from the parsers, so it needs no package and no call of calibrant at each Tab.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from calibrant.cli.list import KINDS

__all__ = ["add_parser", "run", "script"]

HOW = {
    "bash": "calibrant completion bash >> ~/.bashrc",
    "zsh": "calibrant completion zsh >> ~/.zshrc",
    "fish": "calibrant completion fish >> ~/.config/fish/config.fish",
}


def add_parser(commands: Any) -> None:
    """Add the command's options."""
    parser = commands.add_parser(
        "completion",
        help="print a script for Tab completion in bash, zsh or fish",
        description="Print a script that completes commands and options by Tab. To keep it for "
        f"new shells: {HOW['bash']}, or {HOW['zsh']}, or {HOW['fish']}.",
    )
    parser.add_argument("shell", choices=list(HOW), help="the shell that reads the script")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the script of one shell."""
    from calibrant.cli import _parser

    print(script(args.shell, _parser().commands), end="")
    return 0


def script(shell: str, commands: Mapping[str, Any]) -> str:
    """Return the script of a shell for parsers by command."""
    for parser in commands.values():
        parser.add_later()
    return _fish(commands) if shell == "fish" else _bash(commands, shell)


# Options that take a name of a table, which 'calibrant list' shows; FILE and others take none.
_TABLES = {
    "--calibrator": "calibrators",
    "--kind": "corruptions",
    "--method": "methods",
    "--task": "tasks",
}


def _options(parser: argparse.ArgumentParser) -> Iterator[tuple[argparse.Action, list[str]]]:
    """Yield each action with its values; positional arguments have no option strings."""
    for action in parser._actions:
        yield action, [str(choice) for choice in action.choices or _names(action)]


def _names(action: argparse.Action) -> list[str]:
    """Return the names that an argument without choices takes; [] if it takes other things."""
    if action.metavar == "KIND":
        return list(KINDS)
    tables = [_TABLES[option] for option in action.option_strings if option in _TABLES]
    if not tables or action.metavar not in (None, "NAME"):
        return []
    names = [row["name"] for row in KINDS[tables[0]][1]()]
    return ["auto", *names] if tables == ["calibrators"] else names


def _bash(commands: Mapping[str, Any], shell: str) -> str:
    values, words = [], []
    for name, parser in commands.items():
        options: list[str] = []
        for action, choices in _options(parser):
            options += action.option_strings
            patterns = [f"{name}:*:{option}" for option in action.option_strings]
            if choices:  # Of an option, or of the positional argument.
                pattern = "|".join(patterns) or f"{name}:[!-]*:*|{name}::*"
                values.append(f'    {pattern}) found="{" ".join(choices)}" ;;')
        words.append(f'    {name}:-*) found="{" ".join(options)}" ;;')
    return (_ZSH if shell == "zsh" else "") + _BASH.format(
        commands=" ".join(commands), values="\n".join(values), words="\n".join(words)
    )


# zsh reads the script of bash. A .zshrc that loads no completion is that of a fresh account.
_ZSH = """\
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit -i; }
autoload -U +X bashcompinit && bashcompinit
"""

# Options are offered after a dash; without a match, bash completes the names of files.
_BASH = """\
_calibrant() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}"
  local command="${{COMP_WORDS[1]}}" found=""
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "{commands} --help --version" -- "$current"))
    return
  fi
  case "$command:$current:$before" in
{values}
{words}
  esac
  COMPREPLY=($(compgen -W "$found" -- "$current"))
}}
complete -o default -F _calibrant calibrant
"""


def _fish(commands: Mapping[str, Any]) -> str:
    lines = []
    for name, parser in commands.items():
        about = shlex.quote((parser.description or "").partition(". ")[0])
        lines.append(f"complete -c calibrant -n __fish_use_subcommand -a {name} -d {about}")
        seen = f"-n '__fish_seen_subcommand_from {name}'"
        for action, choices in _options(parser):
            parts = [_fish_option(option) for option in action.option_strings]
            if choices:
                parts.append(f"-xa {shlex.quote(' '.join(choices))}")
            if parts:
                help_ = shlex.quote(str(action.help or "").replace("%%", "%"))
                lines.append(f"complete -c calibrant {seen} {' '.join(parts)} -d {help_}")
    return "\n".join(lines) + "\n"


def _fish_option(option: str) -> str:
    """Return fish's words for an option.

    >>> _fish_option("--json"), _fish_option("-o")
    ('-l json', '-s o')
    """
    return f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
