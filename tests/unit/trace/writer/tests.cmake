vs_unit_test(recover)
