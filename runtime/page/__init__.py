"""The report as an HTML page: what it shows in modules, what that looks like in a template and a style sheet."""
