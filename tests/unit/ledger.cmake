vs_unit_test(ledger)
