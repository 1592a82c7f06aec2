"""The routes of Azure Personalizer, for programs that were written for it.

They translate to the commands of one session, named `personalizer`, and decide nothing themselves.
Begin with `events`. What maps to what is in docs/guide/personalizer.md.
"""
