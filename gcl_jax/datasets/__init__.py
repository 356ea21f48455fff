"""Collections of formulas: NTCIR-12's, Wikipedia's, and any file of formulas."""
