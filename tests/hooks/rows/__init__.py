"""The rows of the table, by what their hooks are for."""
