"""From nodes to text, one module a target language. Printers know syntax only."""
