"""Plugins are found by name, and what is wrong with one is told with its name and its distribution."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from headrace.common.config_options import ConfigOption, integer
from headrace.common.errors import ConfigurationError, InvalidProgramError
from headrace.common.plugins import Plugin, PluginGroup

GROUP = "headrace.fruit"


class Fruit(Plugin):
    noun = "fruit"


class Apple(Fruit):
    required_options = (ConfigOption("colour", str, ""),)
    optional_options = (ConfigOption("seeds", integer(0, 10), 5),)


FRUIT = PluginGroup(GROUP, Fruit, {"apple": f"{__name__}:Apple"})


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setitem(sys.modules, __name__, sys.modules.get(__name__) or sys.modules[Fruit.__module__])
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def install(site: Path, distribution: str, entries: str, **modules: str) -> None:
    about = site / f"{distribution}-2.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 2.0\n")
    (about / "entry_points.txt").write_text(f"[{GROUP}]\n{entries}\n")
    for name, text in modules.items():
        (site / f"{name}.py").write_text(text)


PEAR = f"from {__name__} import Fruit\nclass Pear(Fruit): ...\n"


def test_the_built_in_ones_and_those_that_are_installed(site: Path) -> None:
    assert FRUIT.names() == ["apple"]
    install(site, "orchard", "pear = plugged_pear:Pear", plugged_pear=PEAR)
    assert FRUIT.names() == ["apple", "pear"]
    assert type(FRUIT.load("apple")) is Apple
    assert str(FRUIT.load("pear")) == "fruit 'pear'"


def test_nothing_else_is_imported(site: Path) -> None:
    install(site, "orchard", "pear = plugged_broken:Pear", plugged_broken="raise SystemExit")
    FRUIT.load("apple")
    assert "plugged_broken" not in sys.modules


@pytest.mark.parametrize(("name", "said"), [("aple", "did you mean 'apple'\\?"), ("", "there are 'apple'")])
def test_an_unknown_name(name: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=f"there is no fruit '{name}': {said}.*entry point.*{GROUP!r}"):
        FRUIT.load(name)


def test_two_of_one_name(site: Path) -> None:
    install(site, "orchard", "pear = plugged_a:Pear")
    install(site, "garden", "pear = plugged_b:Pear")
    with pytest.raises(ConfigurationError, match=r"'pear' is in (orchard|garden) 2\.0 and (orchard|garden) 2\.0"):
        FRUIT.load("pear")


def test_one_distribution_that_is_found_twice_is_one(site: Path) -> None:
    install(site, "orchard", "pear = plugged_twice:Pear", plugged_twice=PEAR)
    copy = site / "copy"
    copy.mkdir()
    install(copy, "orchard", "pear = plugged_twice:Pear")
    sys.path.append(str(copy))
    try:
        assert FRUIT.load("pear").name == "pear"
    finally:
        sys.path.remove(str(copy))


def test_headraces_own_names_cannot_be_taken(site: Path) -> None:
    install(site, "orchard", "apple = plugged_apple:Apple")
    with pytest.raises(ConfigurationError, match=r"'apple' is in headrace and orchard 2\.0: uninstall"):
        FRUIT.load("apple")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise KeyError('no tree')", r"plugged_\w+:Pear: KeyError: 'no tree'"),
        ("Apple = 1", "AttributeError"),
        ("Pear = 1", r"has to be a class that extends .*Fruit"),
        ("class Pear: ...", r"has to be a class that extends .*Fruit"),
    ],
)
def test_one_that_cannot_be_loaded_names_its_distribution(site: Path, text: str, said: str) -> None:
    module = f"plugged_{len(text)}"
    install(site, "orchard", f"pear = {module}:Pear", **{module: text})
    with pytest.raises(InvalidProgramError, match=rf"fruit 'pear' of orchard 2\.0.*{said}"):
        FRUIT.load("pear")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, r"fruit 'apple' needs 'colour' among its options"),
        ({"color": "red"}, r"fruit 'apple' has no option 'color': did you mean 'colour'\?"),
        ({"x": "red"}, r"has no option 'x': there are 'colour', 'seeds'"),
        ({"colour": "red", "seeds": 11}, r"seeds = '11': expected"),
        ({"colour": "red", "skin.x": 1}, r"has no option 'skin\.x'"),
    ],
)
def test_options_that_are_wrong(site: Path, options: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        FRUIT.load("apple").read_options(options)


def test_options_that_are_right(site: Path) -> None:
    read = FRUIT.load("apple").read_options({"colour": "red", "skin.thick": True}, nested="skin")
    assert read.get(Apple.optional_options[0]) == 5
    assert read.to_dict() == {"colour": "red", "skin.thick": "true"}
