"""A few tests of every noun once more, with every tenant encrypted.

All of them run so by hand: ``LIMPET_TEST_ENCRYPTED=1 pytest tests/contract``.
"""

from __future__ import annotations

import pytest

from tests.conftest import ENCRYPTED
from tests.contract.test_context import (  # noqa: F401 - collected here once more
    test_context_groups_records_into_sections,
    test_context_hits_do_not_repeat_its_messages,
)
from tests.contract.test_default_recipe import test_default_recipe_prefers_speaker_named_in_query  # noqa: F401
from tests.contract.test_documents import (  # noqa: F401
    test_add_document_replaces_chunks_of_changed_content,
    test_recall_hit_gives_document_and_offset,
)
from tests.contract.test_forget_derived import (  # noqa: F401
    test_forget_redacts_sentence_in_message_and_deletes_derived_data,
)
from tests.contract.test_graph import (  # noqa: F401
    test_graph_contains_entities_relations_and_sources,
    test_graph_global_recipe_prefers_same_community,
    test_graph_relation_of_record_ends_when_record_ends,
)
from tests.contract.test_kv import test_kv_evicts_oldest_entry_beyond_cap  # noqa: F401
from tests.contract.test_learning import (  # noqa: F401
    learning,
    opening,
    test_changed_fact_supersedes_previous_one,
    test_near_duplicates_are_merged_by_vector_similarity,
)
from tests.contract.test_messages import (  # noqa: F401
    test_append_idempotency_key_survives_reopen,
    test_tool_calls_names_flags_and_metadata_survive_reopen,
)
from tests.contract.test_recall import (  # noqa: F401
    test_recall_finds_all_of_two_thousand_messages,
    test_recall_omits_changed_and_deleted_text,
)
from tests.contract.test_records import (  # noqa: F401
    test_records_filters_are_combined_with_and,
    test_remember_keeps_every_field,
)
from tests.contract.test_records_in_time import test_records_as_of_returns_version_of_that_time  # noqa: F401
from tests.contract.test_summary import test_swap_summary_expects_epoch_zero_for_first_summary  # noqa: F401

pytestmark = [
    pytest.mark.every_backend,
    pytest.mark.usefixtures("encrypted"),
    pytest.mark.skipif(ENCRYPTED, reason="all tests are run so already"),
]
