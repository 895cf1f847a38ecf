"""What looks for mistakes: each witness is told of what happens, and shows events to the rules.

A witness imports none of its kind: what several of them need stands below them.
"""
