import sys

from tests import loopback_store

sys.exit(loopback_store.main())
