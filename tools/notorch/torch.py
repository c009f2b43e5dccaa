# SPDX-License-Identifier: Apache-2.0
"""Stands before torch on PYTHONPATH when TORCH=0, so that tests see a machine without torch
even where it is installed; subprocesses of tests inherit this."""

raise ModuleNotFoundError("torch is left out (TORCH=0)", name="torch")
