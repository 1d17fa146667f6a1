"""Makes Airflow's metadata database and the pool that all Spark tasks share. One process, since each Airflow command costs seconds."""

from airflow.models.pool import Pool
from airflow.utils.db import initdb

# One slot: a driver takes all cores of a small machine, and a second one beside it only makes both slower.
SPARK_SLOTS = 1

if __name__ == "__main__":
    initdb()
    Pool.create_or_update_pool("spark", slots=SPARK_SLOTS, description="Spark drivers at one time", include_deferred=False)
