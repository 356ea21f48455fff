"""Tags that users gave to entities: one row per entity, tag and user."""

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np

from retrieval_jax.errors import InputError


@dataclasses.dataclass(frozen=True, eq=False)
class TagVotes:
    """Tag applications; a user's application of a tag to an entity is one vote.

    Attributes:
        tags: the vocabulary; the index of a tag is its id.
        entity_ids: int32 [applications], indices into `EntityCorpus.entities`.
        tag_ids: int32 [applications].
        user_ids: int32 [applications]; users are numbered anew in each dump of tags that was read,
            so that a person who is in two dumps has two numbers.

    Raises:
        InputError: tags that are not different, or columns that do not fit together.
    """

    tags: tuple[str, ...]
    entity_ids: np.ndarray
    tag_ids: np.ndarray
    user_ids: np.ndarray

    def __post_init__(self) -> None:
        """Checks that the parts fit together."""
        if len(set(self.tags)) < len(self.tags):
            raise InputError(
                f"{len(self.tags)} tags are only {len(set(self.tags))} different ones.",
                "Give each tag once.",
            )
        for name in ("entity_ids", "tag_ids", "user_ids"):
            column = getattr(self, name)
            if column.shape != (len(self),) or column.ndim != 1 or column.dtype != np.int32:
                raise InputError(
                    f"`{name}` is {column.dtype}{list(column.shape)}, not int32[{len(self)}].",
                    "Give one int32 number per application.",
                )
            if column.size and column.min() < 0:
                row = int(column.argmin())
                raise InputError(
                    f"`{name}` is {column[row]} in row {row}.", "Number from 0, without gaps."
                )
        if len(self) and self.tag_ids.max() >= len(self.tags):
            row = int(self.tag_ids.argmax())
            raise InputError(
                f"`tag_ids` is {self.tag_ids[row]} in row {row}, but there are {len(self.tags)} "
                "tags.",
                "Number tags by their index in `tags`.",
            )

    def __len__(self) -> int:
        """The number of applications."""
        return len(self.entity_ids)

    def votes(self, num_entities: int) -> np.ndarray:
        """How many users gave a tag to an entity, int32 [num_entities, tags].

        A user who gave the same tag twice counts once.

        Raises:
            InputError: an application is to an entity beyond `num_entities`.
        """
        if len(self) and self.entity_ids.max() >= num_entities:
            row = int(self.entity_ids.argmax())
            raise InputError(
                f"`entity_ids` is {self.entity_ids[row]} in row {row}, but there are "
                f"{num_entities} entities.",
                "Give the tags of this corpus; after `EntityCorpus.subset` number them anew by "
                "`TagVotes.for_entities`.",
            )
        counts = np.zeros((num_entities, len(self.tags)), np.int32)
        rows = np.unique(np.stack([self.entity_ids, self.tag_ids, self.user_ids]), axis=1)
        np.add.at(counts, (rows[0], rows[1]), 1)
        return counts

    def restrict(self, vocabulary: Sequence[str]) -> "TagVotes":
        """The applications of the tags of a closed vocabulary.

        `tags` is the vocabulary in its order, with the tags that nobody gave.
        """
        positions = {tag: i for i, tag in enumerate(vocabulary)}
        new_ids = np.array([positions.get(tag, -1) for tag in self.tags], np.int32)
        tag_ids = new_ids[self.tag_ids] if len(self) else self.tag_ids
        kept = tag_ids >= 0
        return TagVotes(
            tags=tuple(vocabulary),
            entity_ids=self.entity_ids[kept],
            tag_ids=tag_ids[kept],
            user_ids=self.user_ids[kept],
        )

    def for_entities(self, old_names: Sequence[str], new_names: Sequence[str]) -> "TagVotes":
        """The applications to entities that another list has too, numbered by it.

        Args:
            old_names: the entities that `entity_ids` number now.
            new_names: those of the other list, such as a subset's.
        """
        positions = {name: i for i, name in enumerate(new_names)}
        new_ids = np.array([positions.get(name, -1) for name in old_names], np.int32)
        entity_ids = new_ids[self.entity_ids] if len(self) else self.entity_ids
        kept = entity_ids >= 0
        return TagVotes(
            tags=self.tags,
            entity_ids=entity_ids[kept],
            tag_ids=self.tag_ids[kept],
            user_ids=self.user_ids[kept],
        )


def normal_tag(tag: str) -> str:
    """A tag in lower case with single spaces, as the tag genome writes its vocabulary."""
    return " ".join(tag.lower().split())


def tag_votes(
    applications: Iterable[tuple[int, str, str]], vocabulary: Sequence[str] = ()
) -> TagVotes:
    """Numbers tags and users; applications that repeat another are left out.

    Args:
        applications: entity, tag and user of each.
        vocabulary: the first tags, in this order; further tags follow, sorted.
    """
    rows = sorted({(entity, normal_tag(tag), user) for entity, tag, user in applications})
    known = dict.fromkeys(vocabulary)
    tags = (*vocabulary, *sorted({tag for _, tag, _ in rows if tag not in known}))
    tag_ids = {tag: i for i, tag in enumerate(tags)}
    user_ids = {user: i for i, user in enumerate(sorted({user for _, _, user in rows}))}
    return TagVotes(
        tags=tags,
        entity_ids=np.array([entity for entity, _, _ in rows], np.int32),
        tag_ids=np.array([tag_ids[tag] for _, tag, _ in rows], np.int32),
        user_ids=np.array([user_ids[user] for _, _, user in rows], np.int32),
    )
