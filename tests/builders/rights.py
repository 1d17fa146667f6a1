"""A job started as an ordinary user would start it."""

import os

# Root may read and write everything; without these rights it is a user like any other, to whom file permissions apply.
AS_A_USER = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all"] if os.geteuid() == 0 else []
