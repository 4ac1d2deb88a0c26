-- Words used to be cut by the server's parser, which takes a path or a host name for one. What is not here the next search indexes anew.
TRUNCATE search;
