// Reading both indexes: their documents, and their definitions. No role here can change either.
targetScope = 'resourceGroup'

@description('Name of the search service.')
param searchServiceName string

@description('Object id of the identity that reads.')
param principalId string

var searchIndexDataReader = '1407120a-92aa-4202-b7e9-c0e197c71c8f'
// The data role queries documents and nothing else; definitions take Reader, given on this one service.
var reader = 'acdd72a7-3385-48ef-bd42-f606fba81ae7'

resource search 'Microsoft.Search/searchServices@2023-11-01' existing = {
  name: searchServiceName
}

resource documents 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(search.id, principalId, searchIndexDataReader)
  scope: search
  properties: {
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', searchIndexDataReader)
    principalId: principalId
    principalType: 'ServicePrincipal'
  }
}

resource definitions 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(search.id, principalId, reader)
  scope: search
  properties: {
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', reader)
    principalId: principalId
    principalType: 'ServicePrincipal'
  }
}
