"""search-index-gate: compare two Azure AI Search indexes question by question before the switch."""

VERSION = "0.1.0"
