vs_unit_test(recover)
vs_one_thread(recover)
