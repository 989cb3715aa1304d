vs_unit_test(ledger)
vs_unit_test(store)
vs_unit_test(records)
vs_unit_test(ledger_model)
