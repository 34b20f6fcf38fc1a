"""The command line of ``review_analysis``, and what it says when something is wrong."""

from __future__ import annotations

import argparse
import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path

PROVIDERS = ("openai", "anthropic", "ollama")


def written_paths(output: Path) -> tuple[Path, Path, Path, Path]:
    """The output, its rejects, and the two as they are called until the job has ended."""
    rejects = Path(f"{output}.rejects.jsonl")
    return output, rejects, Path(f"{output}.part"), Path(f"{rejects}.part")


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line; a mistake ends the process with code 2 and one line that says what is wrong."""
    parser = argparse.ArgumentParser(prog="review_analysis", description="Analyse product reviews with an agent.")
    parser.add_argument("--input", type=Path, required=True, help="JSON lines: review_id, product_id, ts, text")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("review_analysis.jsonl"),
        help="JSON lines; rejects go to OUTPUT.rejects.jsonl (default review_analysis.jsonl, here)",
    )
    parser.add_argument(
        "--output-folder",
        type=Path,
        metavar="FOLDER",
        help="instead of --output: the TaskManagers write JSON lines there, rejects among them",
    )
    parser.add_argument(
        "--model",
        type=model_name,
        metavar="local | openai:NAME | anthropic:NAME | ollama:NAME",
        help="let a language model judge the reviews, instead of a lexicon",
    )
    parser.add_argument("--base-url", help="of the model's server, if it is not its maker's own")
    parser.add_argument("--mode", choices=("thread", "process"), help="how Flink runs Python (default: what works)")
    parser.add_argument("--parallelism", type=_positive, default=1, help="of the agent (default 1)")
    parser.add_argument("--limit", type=_positive, help="read only so many lines")
    options = parser.parse_args(arguments)
    problem = _problem_with_files(options.input, options.output)
    if problem:
        parser.exit(2, f"review_analysis: error: {problem}\n")
    if options.model is None and importlib.util.find_spec("vaderSentiment") is None:
        parser.exit(2, "review_analysis: error: the library vaderSentiment is missing: pip install vaderSentiment\n")
    return options


def model_name(text: str) -> str:
    """Check the value of ``--model``."""
    provider, _, name = text.partition(":")
    if text == "local" or (provider in PROVIDERS and name):
        return text
    raise argparse.ArgumentTypeError(f"{text!r} is none of: local, {', '.join(f'{known}:NAME' for known in PROVIDERS)}")


def _positive(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return number


def _problem_with_files(source: Path, target: Path) -> str | None:
    if not source.exists():
        return f"the input file {source} does not exist"
    if not source.is_file() or not os.access(source, os.R_OK):
        return f"the input {source} is not a regular file that can be read"
    if target.is_dir():
        return f"the output {target} is a folder; give the name of a file"
    if not os.access(target.parent, os.W_OK):
        return f"the folder of the output file, {target.parent}, does not exist or cannot be written to"
    if any(path.exists() and path.samefile(source) for path in written_paths(target)):
        return "the input would be overwritten: it is the output, its rejects file, or one of their .part files"
    return None
