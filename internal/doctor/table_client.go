package doctor

// conditionsOfClients is the table of what is found in clients.
var conditionsOfClients = []Condition{}
