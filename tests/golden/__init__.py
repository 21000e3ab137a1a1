"""The library's word: numbers, texts and refusals of the code before the house was rebuilt, kept to compare with."""
