"""Models of the answers, for /openapi.json, made from the client's types of them.

Answers are not validated against these models.
"""

from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, Field, create_model
from typing_extensions import is_typeddict

from service.base.problems import ProblemCode

# types that the client does not know
KINDS: dict[tuple[str, str], Any] = {("ProblemAnswer", "code"): ProblemCode}


def model_of(kind: Any) -> Any:
    """Return a type with a model in the place of each type of dictionaries."""
    if is_typeddict(kind):
        return _model(kind)
    origin, parts = get_origin(kind), get_args(kind)
    if not parts or origin is Literal:
        return kind
    models = tuple(map(model_of, parts))
    return Union[models] if origin is UnionType else origin[models]  # noqa: UP007


@cache
def page_of(kind: Any, **more: Any) -> type[BaseModel]:
    """Return the model of one page of a listing; `more` are its members beside the items."""
    members: Any = {"items": list[model_of(kind)], "next": str | None, **more}  # type: ignore[misc]
    fields: Any = {name: (member, ...) for name, member in members.items()}
    about = "One page of a listing; `next` is the cursor of the following page, or null."
    model: type[BaseModel]
    model = create_model(kind.__name__.replace("Answer", "Page"), __doc__=about, **fields)
    return model


@cache
def _model(kind: Any) -> type[BaseModel]:
    members: dict[str, Any] = {}
    for name, hint in get_type_hints(kind).items():
        member = KINDS.get((kind.__name__, name)) or model_of(hint)
        default: Any = ...
        if name in kind.__optional_keys__:
            default = None if NoneType in get_args(hint) else Field(default_factory=NoneType)
        members[name] = member, default
    return create_model(kind.__name__, __doc__=kind.__doc__, **members)
