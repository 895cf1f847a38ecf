"""The guard inside the training loops of other libraries; each module imports its library, and only when imported.

- :mod:`gradlint.runtime.integrations.huggingface`: a callback for the Trainer of Transformers
- :mod:`gradlint.runtime.integrations.lightning`: a callback for the Trainer of Lightning
- :mod:`gradlint.runtime.integrations.accelerate`: a guard of what an Accelerator has prepared
"""
