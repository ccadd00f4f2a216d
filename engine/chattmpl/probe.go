package chattmpl

func (t *Template) probe() {}
