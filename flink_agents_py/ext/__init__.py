"""One module per optional integration; each needs an extra of the package, imported when first used."""
