"""A few tests of every noun once more, with every tenant sealed.

All of them run so by hand: ``LIMPET_TEST_SEALED=1 pytest tests/contract``.
"""

from __future__ import annotations

import pytest

from tests.conftest import SEALED
from tests.contract.test_context import (  # noqa: F401 - collected here once more
    test_hits_do_not_repeat_messages_that_are_already_in_the_context,
    test_sections_of_records,
)
from tests.contract.test_documents import (  # noqa: F401
    test_a_hit_says_which_document_and_where_in_it,
    test_changed_content_replaces_its_chunks,
)
from tests.contract.test_forgetting import (  # noqa: F401
    test_the_sentence_goes_from_its_message_and_everything_made_of_it,
)
from tests.contract.test_graph import (  # noqa: F401
    test_a_record_is_read_too_and_its_relation_ends_with_it,
    test_names_relations_and_where_they_were_said,
    test_recall_prefers_what_comes_up_together,
)
from tests.contract.test_kv import test_beyond_the_cap_the_oldest_goes  # noqa: F401
from tests.contract.test_learning import (  # noqa: F401
    learning,
    opening,
    test_a_change_of_mind_leaves_one_current_fact_and_one_past,
    test_near_duplicates_are_merged_by_their_vectors,
)
from tests.contract.test_messages import (  # noqa: F401
    test_a_key_survives_closing,
    test_tool_calls_results_names_flags_and_metadata_survive_closing,
)
from tests.contract.test_recall import (  # noqa: F401
    test_changed_and_deleted_text_is_not_found,
    test_more_than_two_thousand_messages_are_all_found,
)
from tests.contract.test_recipe import test_the_speaker_a_question_names_is_preferred  # noqa: F401
from tests.contract.test_records import (  # noqa: F401
    test_a_record_keeps_everything_it_was_given,
    test_as_of_gives_what_was_said_then,
    test_filters_hold_together,
)
from tests.contract.test_summary import test_the_first_summary_replaces_epoch_zero  # noqa: F401

pytestmark = [
    pytest.mark.every_backend,
    pytest.mark.usefixtures("sealed"),
    pytest.mark.skipif(SEALED, reason="all tests are run so already"),
]
