"""Pipeline declarations to Airflow DAGs."""
