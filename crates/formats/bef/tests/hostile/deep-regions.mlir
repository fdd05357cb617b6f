func.func @f() {
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  "x"() ({
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
  }) : () -> ()
  tfrt.return
}
