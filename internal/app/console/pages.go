package console

// pages returns all pages in the order of the navigation. To add a page, write a function that
// returns its Page, put its template in the folder templates, and call the function here.
func (c *Console) pages() []Page {
	return []Page{
		c.overviewPage(),
		c.callsPage(), c.callPage(),
		c.clientsPage(), c.clientPage(),
		c.serversPage(), c.addServerPage(), c.serverPage(), c.findingsPage(), c.resourcesPage(), c.promptsPage(), c.toolsPage(), c.toolPage(), c.runPage(),
		c.connectPage(), c.compatibilityPage(), c.eventsPage(), c.settingsPage(),
	}
}
