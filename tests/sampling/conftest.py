import pytest

from tests.sampling.files import written


@pytest.fixture
def folder(tmp_path):
    return written(tmp_path)
