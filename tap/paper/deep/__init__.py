"""Deep verification: every stated value is made anew from what it rests on, down to single images and the weights.

Hashes show that no file was changed since its job wrote it. They do not show that a job wrote it: somebody who changes
a score, its record and all records after it leaves a tree whose hashes agree. Here the values themselves are compared.
"""
