package files

func (p *trap) pipe(string) {}

func (p *trap) special() {}
