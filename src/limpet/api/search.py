"""Recall: a question's answer from everything a user, an agent or a tenant has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Literal

from limpet.api.base import BaseOperations
from limpet.errors import Unsupported
from limpet.model.chunk import Hit, Vector, number_hits
from limpet.model.scope import Partition
from limpet.model.text import check_optional_name
from limpet.model.times import check_time
from limpet.providers.reranker import Reranker, check_reranker, rerank_hits
from limpet.search import recipes, search
from limpet.search.question import Question
from limpet.security.operation import operation


class SearchOperations(BaseOperations):
    """The verbs that search."""

    @operation("recall")
    def recall(
        self,
        query: str,
        user: str | None = None,
        k: int | None = None,
        session: str | None = None,
        kinds: Iterable[str] | None = None,
        layers: Iterable[str] | None = None,
        types: Iterable[str] | None = None,
        tags: Iterable[str] | None = None,
        metadata: Mapping[str, str] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        as_of: datetime | None = None,
        at: datetime | None = None,
        recipe: str | None = None,
        rerank: Reranker | None = None,
        *,
        agent: str | None = None,
        scope: Literal["global"] | None = None,
        neighbours: int = 0,
        skill: str | None = None,
    ) -> list[Hit]:
        """The chunks that answer the question best, of a user, one of the user's sessions, an agent, or the tenant.

        With ``neighbours`` each hit brings so many messages from before and after it. ``rerank`` looks at the best
        hits once more and orders them anew. The recipe ``records`` weighs records by relevance, recency, salience,
        confidence and type, and by whether they were learned with the ``skill`` that is active now.
        """
        text, count = search.validate_question(query), search.validate_k(self.config.search.k if k is None else k)
        chosen = recipes.find_recipe(self.config.search.recipe if recipe is None else recipe)
        check_reranker(rerank)
        home = self._resolve_owner(user, agent, session, scope)
        chunks = search.build_chunk_query(
            session=home.scope.session,
            kinds=kinds,
            records=search.build_record_filter(layers, types, tags, metadata),
            since=since,
            until=until,
            as_of=as_of,
        )
        now = self._now()
        question = Question.parse(text, now if at is None else check_time(at, "at"))
        wanted = search.SearchRequest(
            question,
            chunks,
            chosen,
            count if rerank is None else max(count, self.config.search.rerank),
            self.config.search,
            now,
            self._embed_query(home.space, text, chosen),
            search.validate_neighbours(neighbours),
            check_optional_name(skill, "skill"),
        )
        hits = self._read(lambda tx: search.search(tx, home.space, wanted))
        return number_hits(hits if rerank is None or not hits else rerank_hits(rerank, text, hits)[:count])

    def _embed_query(self, space: Partition, question: str, recipe: recipes.Recipe) -> Vector | None:
        """The question's vector, made before the transaction that searches with it."""
        if not recipe.dense:
            return None
        if self._runtime.embedding is None and not recipe.words:
            raise Unsupported(
                f"the recipe {recipe.name!r} needs an embedder: set embedding.model, or install limpet[minilm]"
            )
        return self._runtime.embed_query(space, question)
