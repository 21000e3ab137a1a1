"""What is concluded from data, as data; the sentences that say so are made at the end, by one table."""
