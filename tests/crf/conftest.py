"""A tagger that is fitted once for all tests."""

import pytest

from monro import CRFTagger
from tests.crf.helpers import TEMPLATE, corpus


@pytest.fixture(scope="session")
def fitted():
    return CRFTagger(c=1.0, template=TEMPLATE, random_state=0).fit(*corpus())
