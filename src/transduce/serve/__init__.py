"""HTTP: translation as a service, and the page.

Import what you need from `app.py`, `settings.py`, `service.py`; nothing heavy is imported here.
"""
