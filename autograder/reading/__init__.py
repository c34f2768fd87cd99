"""Reading what students hand in: folders, zips, encodings, notebooks, and sources that do not parse."""
