package valu

func (t *table) addFastLoops() {}
